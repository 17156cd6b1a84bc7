"""Client of a model server: a model that runs on another machine, used like a local one."""
