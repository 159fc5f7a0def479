import { randomFillSync } from 'node:crypto'

const pool = new Uint8Array(4096)
let used = pool.length

/** The position of `count` fresh random bytes in the pool. */
function take(count: number): number {
  if (used + count > pool.length) {
    randomFillSync(pool)
    used = 0
  }
  used += count
  return used - count
}

/** ASCII codes of the hexadecimal digits. */
const digit = Uint8Array.from('0123456789abcdef', (char) => char.charCodeAt(0))

/** Where the text of the next id is put together; its dashes and version stay. */
const text = Buffer.from('00000000-0000-7000-8000-000000000000', 'latin1')

function write(byte: number, position: number): void {
  text[position] = digit[byte >> 4] as number
  text[position + 1] = digit[byte & 15] as number
}

let lastMs = 0
let counter = 0

/**
 * UUIDv7: the time first, so that ids sort by creation and indexes grow at one end; then a counter that
 * keeps the order inside a millisecond, then random bits. Put together in a buffer, because a string made
 * by concatenation costs again when it is first hashed.
 */
export function newId(now: number): string {
  if (now > lastMs) {
    lastMs = now
    counter = 0
    writeTime(now)
  } else if (++counter > 0xfff) {
    // More than 4,096 ids in one millisecond, or a clock that went back: borrow from the next one.
    counter = 0
    writeTime(++lastMs)
  }
  text[15] = digit[counter >> 8] as number
  write(counter & 0xff, 16)
  const r = take(8)
  write(((pool[r] as number) & 0x3f) | 0x80, 19)
  write(pool[r + 1] as number, 21)
  for (let i = 0; i < 6; i++) write(pool[r + 2 + i] as number, 24 + 2 * i)
  return text.toString('latin1')
}

function writeTime(ms: number): void {
  const time = ms.toString(16).padStart(12, '0')
  text.write(time.slice(0, 8), 0, 'latin1')
  text.write(time.slice(8), 9, 'latin1')
}

/** 96 random bits for leases and worker names. */
export function newToken(): string {
  const start = take(12)
  return Buffer.from(pool.buffer, start, 12).toString('hex')
}
