// The handler of resize-in-threads.ts. A function cannot cross into a thread, so it has a module of its own.
import { defineHandler } from 'millrace'

export interface Resize {
  readonly photo: string
  readonly width: number
  readonly height: number
  /** Each pixel of the result is the mean of a square this wide. */
  readonly by: number
}

export default defineHandler(({ photo, width, height, by }: Resize, { progress, log }) => {
  if (photo === 'broken') for (;;); // a decoder in search of an end that never comes
  const source = paint(width, height) // read your file here
  const small = { width: Math.floor(width / by), height: Math.floor(height / by) }
  const target = new Uint8Array(small.width * small.height * 3)
  for (let y = 0; y < small.height; y++) {
    for (let x = 0; x < small.width; x++) {
      for (let colour = 0; colour < 3; colour++) {
        target[(y * small.width + x) * 3 + colour] = mean(source, width, x * by, y * by, by, colour)
      }
    }
    progress((y + 1) / small.height) // leaves the thread at once, though this loop lets nothing else run
  }
  log(`${photo}: ${source.length} bytes became ${target.length}`)
  return { ...small, brightness: Math.round(target.reduce((sum, value) => sum + value, 0) / target.length) }
})

function mean(
  pixels: Uint8Array,
  width: number,
  left: number,
  top: number,
  by: number,
  colour: number,
): number {
  let sum = 0
  for (let y = top; y < top + by; y++) {
    for (let x = left; x < left + by; x++) sum += pixels[(y * width + x) * 3 + colour] as number
  }
  return sum / (by * by)
}

/** Waves of colour. */
function paint(width: number, height: number): Uint8Array {
  const pixels = new Uint8Array(width * height * 3)
  for (let i = 0; i < pixels.length; i++) pixels[i] = 128 + 127 * Math.sin(i / (997 + (i % 3)))
  return pixels
}
