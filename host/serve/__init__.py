"""The HTTP server: OpenAI-style completions on one device, shared by many clients (docs/serving.md)."""
