"""ARCADE's nodes: gatekeeper, prosecutor, defender and judge, a file each, and the cues that they argue about."""
