/**
 * Of what scripts have in common, each gets what it uses: the server makes all of it anew whenever a script runs.
 * A part is one definition, behind an empty line; what comes before the first one belongs to every script. Comments stay here: no
 * script of ours is as it stands in any one file, so it is its own lines that errors of the server name.
 */
export function withParts(common: string, text: string): string {
  const [head = '', ...parts] = withoutComments(common).split(/\n\n(?=local (?:function )?\w+)/)
  const own = withoutComments(text)
  const used = new Set<string>()
  const texts = [own]
  for (let user = texts.pop(); user !== undefined; user = texts.pop()) {
    const code = withoutStrings(user)
    for (const part of parts) {
      if (used.has(part) || !uses(code, nameOf(part))) continue
      used.add(part)
      texts.push(part)
    }
  }
  return [head, ...parts.filter((part) => used.has(part)), own].join('\n\n')
}

/** Each of them has its lines for itself. */
function withoutComments(text: string): string {
  return text.replace(/^ *--.*\n/gm, '').trim()
}

/** Names of keys and words of messages are no uses of what is called the same. */
function withoutStrings(text: string): string {
  return text.replace(/'[^'\n]*'/g, "''")
}

function nameOf(part: string): string {
  return /^local (?:function )?(\w+)/m.exec(part)?.[1] as string
}

/** Fields are none either; two dots join texts. */
function uses(code: string, name: string): boolean {
  return new RegExp(`(?<!\\w|(?<!\\.)\\.)${name}\\b`).test(code)
}
