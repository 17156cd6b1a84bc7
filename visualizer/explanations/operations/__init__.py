"""What is said and written of each operation, one module an operation."""
