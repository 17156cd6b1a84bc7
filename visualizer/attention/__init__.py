"""The numbers: attention computed stage by stage with torch. No Qt, no threads, no clock."""
