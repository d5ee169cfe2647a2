"""The service: one session per wearer, durable; `keeper` is it without HTTP, `app` puts HTTP around it."""
