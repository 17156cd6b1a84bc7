"""The numbers: attention modules, stages, traces and explanations."""
