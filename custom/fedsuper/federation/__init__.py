"""One study as messages: the server loop, the site worker, and what each keeps on disk. Knows no engine."""
