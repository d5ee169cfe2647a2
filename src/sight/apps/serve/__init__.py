"""The live service: one durable session per wearer, served over HTTP and WebSocket with two web pages."""
