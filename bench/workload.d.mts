export const pragmas: Readonly<Record<string, string | number>>
