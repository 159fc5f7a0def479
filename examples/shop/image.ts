import { setImmediate as nextTurn } from 'node:timers/promises'
import { luck } from './random.js'

/** Eight-bit RGB, row by row. */
export interface Image {
  readonly width: number
  readonly height: number
  readonly pixels: Uint8Array
}

const channels = 3
const rowsPerSlice = 16

/** A stand-in for an upload: a gradient with stripes that differ from photo to photo. */
export function photo(name: string, width: number, height: number): Image {
  const pixels = new Uint8Array(width * height * channels)
  const stripe = 5 + Math.floor(luck(name) * 40)
  for (let y = 0, at = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      pixels[at++] = (x * 255) / width
      pixels[at++] = (y * 255) / height
      pixels[at++] = (x + y) % stripe < stripe / 2 ? 220 : 40
    }
  }
  return { width, height, pixels }
}

/**
 * A box filter: each new pixel is the mean of `factor` × `factor` old ones. The work is done in slices with
 * a turn of the event loop between them, so that one large photo keeps neither mails nor payments waiting.
 */
export async function shrink(image: Image, factor: number, signal: AbortSignal): Promise<Image> {
  const width = Math.floor(image.width / factor)
  const height = Math.floor(image.height / factor)
  const small: Image = { width, height, pixels: new Uint8Array(width * height * channels) }
  for (let row = 0; row < height; row += rowsPerSlice) {
    signal.throwIfAborted()
    for (let y = row; y < Math.min(row + rowsPerSlice, height); y++) shrinkRow(image, small, factor, y)
    await nextTurn()
  }
  return small
}

function shrinkRow(from: Image, to: Image, factor: number, y: number): void {
  for (let x = 0; x < to.width; x++) {
    for (let channel = 0; channel < channels; channel++) {
      let sum = 0
      for (let dy = 0; dy < factor; dy++) {
        const start = ((y * factor + dy) * from.width + x * factor) * channels + channel
        for (let dx = 0; dx < factor; dx++) sum += from.pixels[start + dx * channels] ?? 0
      }
      to.pixels[(y * to.width + x) * channels + channel] = sum / (factor * factor)
    }
  }
}

/** What tells two results apart without keeping their pixels. */
export function meanColour({ pixels }: Image): string {
  const sums = [0, 0, 0]
  for (let i = 0; i < pixels.length; i++) sums[i % channels] = (sums[i % channels] ?? 0) + (pixels[i] ?? 0)
  const hex = sums.map((sum) =>
    Math.round((sum * channels) / pixels.length)
      .toString(16)
      .padStart(2, '0'),
  )
  return `#${hex.join('')}`
}
