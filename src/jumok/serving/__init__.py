"""`jumok serve`: models over HTTP, with the answers of `jumok predict`.

Two kinds of process: one front process owns sockets, limits and queues and imports no torch; one
computing process per model, or several with `--workers`, owns the weights and all their threads.

front process       server, app, routes, requests, replies, scheduler, computing, jumok.web
between them        frames
computing process   worker, engine, merging
"""
