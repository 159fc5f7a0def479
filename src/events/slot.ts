/**
 * Which of 65,536 slots a stream has: 32 bits of FNV-1a over its UTF-8, folded to 16. Our own code, so that it never
 * depends on a server's version.
 */
export function slotOf(stream: string): number {
  let hash = 0x811c9dc5
  for (const byte of new TextEncoder().encode(stream)) hash = Math.imul(hash ^ byte, 0x01000193)
  return ((hash >>> 16) ^ hash) & 0xffff
}
