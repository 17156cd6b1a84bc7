"""The very numbers of a run as text: for spreadsheets, for documents, for other programs."""
