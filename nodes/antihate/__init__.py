"""ANTI-HATE's nodes: research on the web, step by step, and a verdict that cites its evidence."""
