"""`jumok serve`: models over HTTP, with the answers of `jumok predict`.

One process owns sockets, limits and queues, and imports no torch. For each model that
`jumok.engine` computes it has a thread. Other models, and with `--workers` all, have processes of
their own.

server              server, app, routes, requests, replies, scheduler, service, jumok.web
what computes       computing_thread; computing and frames for a process
in both of them     worker, engine, text_engine, jobs
in a process only   pipeline_engine, merging, completions
"""
