/**
 * Of what scripts have in common, each gets what it uses: the server makes all of it anew whenever a script runs.
 * A part is one definition, with the comment above it; the first one belongs to every script.
 */
export function withParts(common: string, text: string): string {
  const [head = '', ...parts] = common.split(/\n\n(?=(?:--.*\n)*local (?:function )?\w+)/)
  const used = new Set<string>()
  const texts = [text]
  for (let user = texts.pop(); user !== undefined; user = texts.pop()) {
    for (const part of parts) {
      if (used.has(part) || !uses(user, nameOf(part))) continue
      used.add(part)
      texts.push(part)
    }
  }
  return [head, ...parts.filter((part) => used.has(part)), text].join('\n\n')
}

function nameOf(part: string): string {
  return /^local (?:function )?(\w+)/m.exec(part)?.[1] as string
}

function uses(text: string, name: string): boolean {
  return new RegExp(`\\b${name}\\b`).test(text)
}
