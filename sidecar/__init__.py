"""A real vLLM: started, loaded and measured beside merges. Imports no vLLM."""
