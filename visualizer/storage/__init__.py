"""Atomic files, locks, JSON coding and archives."""
