"""Reports what a vLLM server serves: one event a finished request, and its load every 100 ms.

Only `plugin` imports vLLM, and vLLM imports it: the rest runs and is tested without.
"""
