/** Between texts that are sent as one. Where it could be in one of them, the engine keeps that apart or escapes it. */
export const separator = '\x1e'
