"""Parts of a replica of the service: its cases, its worker, its batches, its webhooks, its keys."""
