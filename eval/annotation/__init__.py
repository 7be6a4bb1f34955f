"""Have people label posts as H-VLI was labelled (ARCADE paper, sections 3.2 and 3.3, Appendix C and F)."""
