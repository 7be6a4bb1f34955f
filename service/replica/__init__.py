"""What a replica of the service is made of: its cases, its queue, its worker, its keys."""
