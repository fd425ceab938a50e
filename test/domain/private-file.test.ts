// Keys that a first start makes for itself: there whole or not at all, whenever the process dies.
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { auditSignerIn } from '../../packages/server/src/security/audit-signer.ts'
import { makePrivateFile } from '../../packages/server/src/security/private-file.ts'

let directory: string
beforeAll(() => {
  directory = mkdtempSync(join(tmpdir(), 'belfry-private-'))
})
afterAll(() => rmSync(directory, { recursive: true, force: true }))

const signerModule = fileURLToPath(
  new URL('../../packages/server/src/security/audit-signer.ts', import.meta.url),
)

describe('a file that holds a key', () => {
  it('is for its owner alone, and the first one stays', () => {
    const path = join(directory, 'deeper', 'key')
    expect([makePrivateFile(path, 'one'), makePrivateFile(path, 'two')]).toEqual([true, false])
    expect([readFileSync(path, 'utf8'), statSync(path).mode & 0o777]).toEqual(['one', 0o600])
    expect(readdirSync(join(directory, 'deeper'))).toEqual(['key'])
  })

  it('is not there after a process that died while it wrote the key of the audit', () => {
    const place = mkdtempSync(join(directory, 'torn-'))
    const script = `import { auditSignerIn } from ${JSON.stringify(signerModule)}
      auditSignerIn(${JSON.stringify(place)})`
    // no file may have a byte: the system ends whoever writes one
    const died = spawnSync(
      'bash',
      ['-c', 'ulimit -c 0 -f 0; exec "$0" "$@"', process.execPath].concat([
        '--conditions=source',
        '--input-type=module',
        '-e',
        script,
      ]),
    )
    expect(String(died.stderr)).toContain('cannot be kept in')
    expect(readdirSync(place)).not.toContain('audit-key.pem')
    const made = auditSignerIn(place)
    expect(auditSignerIn(place).keyId).toBe(made.keyId)
  })
})
