// Lock files that the rule on dependencies has to refuse, and some that it has to take.
type Sample = Readonly<Record<string, string>>

/** A lock file with one package. */
function lockOf(more: Readonly<Record<string, unknown>>): Sample {
  const entry = { version: '1.0.0', integrity: `sha512-${'a'.repeat(86)}==`, ...more }
  return { 'package-lock.json': JSON.stringify({ packages: { 'node_modules/a': entry } }, undefined, 2) }
}

export const dependencySamples: { readonly bad: readonly Sample[]; readonly good: readonly Sample[] } = {
  bad: [
    lockOf({ integrity: undefined }),
    lockOf({ integrity: 'sha1-2jmj7l5rSw0yVb/vlWAYkK/YBwk=' }),
    lockOf({ resolved: 'https://example.org/a.tgz' }),
    lockOf({ resolved: 'git+ssh://git@example.org/a.git#1' }),
    lockOf({ hasInstallScript: true }),
    lockOf({ dependencies: { b: 'github:somebody/b' } }),
    lockOf({ dependencies: { b: 'https://example.org/b.tgz' } }),
    lockOf({ dependencies: { b: 'file:../b' } }),
  ],
  good: [
    lockOf({}),
    lockOf({ dependencies: { b: '^1.2.3 || >=2', c: 'npm:@d/c@1.0.0', e: '*' } }),
    { ...lockOf({ hasInstallScript: true }), 'package.json': '{"allowScripts": {"a": true}}' },
  ],
}
