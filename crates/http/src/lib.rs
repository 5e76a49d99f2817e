//! The HTTP/JSON interface: routes, callers, errors, limits, the OpenAPI document.
