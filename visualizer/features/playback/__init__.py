"""Step-by-step playback: state, timeline, captions and the playback bar."""
