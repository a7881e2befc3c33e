"""REST: routes, the guard, the start page, exports."""
