/**
 * Text that has broken some store before: each is valid JSON, as a codec would hand it over. NUL and lone
 * surrogates can only arrive escaped, because JSON.stringify escapes them.
 */
export const nastyTexts: readonly string[] = [
  '\0',
  'before\0after',
  '\ud800',
  '\udfff!',
  '\udc00\ud800',
  '😀👩‍👩‍👧‍👦🏴󠁧󠁢󠁥󠁮󠁧󠁿',
  'e\u0301 is not \u00e9',
  'مرحبا \u202e backwards',
  '\u2028\u2029\u0085\ufeff',
  '\u{10ffff}\uffff\ufffe\ufffd',
  '"quotes" \'and\' \\backslashes\\ \\u0000 \\x00',
  "'; DROP TABLE millrace_job; --",
  '%s $1 ? :name @p {{x}} #{y} $$',
  'line\nbreak\r\ntab\tbell\u0007',
  '',
  ' ',
].map((text) => JSON.stringify(text))

/** Documents whose shape or numbers some stores change when they parse and print them again. */
export const nastyDocuments: readonly string[] = [
  'null',
  '0',
  '-0',
  '1e400',
  '9007199254740993',
  '1.0',
  '{"b":1,"a":2,"a":3}',
  '{"__proto__":{"x":1},"constructor":null}',
  '[ 1 ,2,  3 ]',
  `${'['.repeat(100)}${']'.repeat(100)}`,
]
