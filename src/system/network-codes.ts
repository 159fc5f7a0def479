/** What Node.js says of a network, or of a server, that may come back. */
export const networkCodes: ReadonlySet<string> = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'ECONNABORTED',
  'EPIPE',
  'ETIMEDOUT',
  'EHOSTUNREACH',
  'EHOSTDOWN',
  'ENETUNREACH',
  'ENETDOWN',
  'EADDRNOTAVAIL',
  'EMFILE',
  'ENOENT', // the socket of a server that is not running
  'ENOTFOUND', // a name that moves to another server may be gone for a moment
  'EAI_AGAIN',
])
