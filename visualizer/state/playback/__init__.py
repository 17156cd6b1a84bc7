"""Step by step: where playback stands, what lights up, what is said, what is predicted."""
