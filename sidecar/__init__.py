"""A real vLLM on this machine: started, loaded and measured beside merges. Imports no vLLM."""
