/** Between texts that are sent as one. A job that has it in its input cannot be among them, and is special. */
export const separator = '\x1e'
