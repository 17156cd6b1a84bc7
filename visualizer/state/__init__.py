"""The meaning: documents, views and what is shown of them, as values. No Qt, no torch."""
