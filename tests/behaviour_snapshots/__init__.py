"""What the program shows and writes, as files that two versions of it can be compared by."""
