/**
 * Text from handlers (errors, logs, reasons) must be storable everywhere and alike: no NUL, which
 * PostgreSQL refuses, no lone surrogates, which UTF-8 cannot carry, and never longer than its bound.
 */
export function clean(text: string, most: number): string {
  const cut = text.length > most ? `${text.slice(0, most - 1)}…` : text
  const safe = cut.isWellFormed() ? cut : cut.toWellFormed()
  return safe.includes('\0') ? safe.replaceAll('\0', '\uFFFD') : safe
}

/** Bytes of `text` in UTF-8, without encoding it when it is plainly below `most`. */
export function utf8Length(text: string, most: number): number {
  if (text.length * 3 <= most) return text.length
  let bytes = 0
  for (let i = 0; i < text.length; i++) {
    const unit = text.charCodeAt(i)
    if (unit < 0x80) bytes += 1
    else if (unit < 0x800) bytes += 2
    else if (unit >= 0xd800 && unit < 0xdc00 && i + 1 < text.length) {
      bytes += 4
      i++
    } else bytes += 3
  }
  return bytes
}
