// An address as text from its bytes, for tests that make addresses: four bytes dotted, sixteen as eight
// groups without `::`.
export function textOf(parts: readonly number[]): string {
  if (parts.length === 4) return parts.join('.')
  const groups = Array.from({ length: 8 }, (_, at) => (parts[at * 2] ?? 0) * 256 + (parts[at * 2 + 1] ?? 0))
  return groups.map((group) => group.toString(16)).join(':')
}
