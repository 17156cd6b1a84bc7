"""Step-by-step playback: its controller, its captions and the playback bar."""
