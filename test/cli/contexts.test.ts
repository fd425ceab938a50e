// Contexts: the file and its permissions, which of flag, environment and context wins, and that a context's
// key goes to its own server only.
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeEach, describe, expect, it } from 'vitest'
import { contextFile, readContexts, saveContext } from '../../packages/cli/src/contexts.ts'
import { runAlone, startCliRig } from './support/cli.ts'
import { testKey } from './support/contract-server.ts'

const rig = await startCliRig()
afterAll(() => rig.close())

let home = ''
let file = ''
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'belfry-contexts-'))
  file = contextFile({ XDG_CONFIG_HOME: home })
  rig.server.seen.length = 0
})
afterEach(() => rmSync(home, { recursive: true, force: true }))

const run = (argv: readonly string[], options: Parameters<typeof runAlone>[1] = {}) =>
  runAlone(argv, { ...options, env: { XDG_CONFIG_HOME: home, ...options.env } })
const mode = (path: string) => statSync(path).mode & 0o777

describe('the file', () => {
  it('is for its owner only, and is replaced as a whole', async () => {
    await saveContext(file, { name: 'dev', url: 'http://127.0.0.1:1', apiKey: testKey })
    expect(mode(file)).toBe(0o600)
    expect(mode(join(home, 'belfry'))).toBe(0o700)
    chmodSync(file, 0o644)
    await saveContext(file, { name: 'other', url: 'http://127.0.0.1:2' })
    expect(mode(file)).toBe(0o600)
    expect(readdirSync(join(home, 'belfry'))).toEqual(['contexts.yaml'])
    expect(await readContexts(file)).toEqual({
      current: 'dev',
      contexts: { dev: { url: 'http://127.0.0.1:1', apiKey: testKey }, other: { url: 'http://127.0.0.1:2' } },
    })
  })

  it('keeps the key and the link of what it replaces', async () => {
    const elsewhere = join(home, 'real.yaml')
    writeFileSync(elsewhere, `current: a\ncontexts:\n  a:\n    url: http://x\n    apiKey: ${testKey}\n`)
    mkdirSync(join(home, 'belfry'))
    symlinkSync(elsewhere, file)
    await saveContext(file, { name: 'a', url: 'http://x/y' })
    expect(await readContexts(elsewhere)).toEqual({
      current: 'a',
      contexts: { a: { url: 'http://x/y', apiKey: testKey } },
    })
    expect(mode(elsewhere)).toBe(0o600)
  })

  it('is warned about when others can read it', async () => {
    await saveContext(file, { name: 'dev', url: rig.server.url, apiKey: testKey })
    expect((await run(['job', 'list'])).err).not.toContain('warning')
    chmodSync(file, 0o640)
    expect((await run(['job', 'list', '-q'])).err).toContain(`chmod 600 ${file}`)
  })

  it.each(['contexts: [', 'contexts: 3', '- a', 'contexts: {a: {}}', 'word'])(
    'is refused when it holds %j, without repeating what is in it',
    async (text) => {
      await saveContext(file, { name: 'x', url: 'http://x' })
      writeFileSync(file, `${text}\n# ${testKey}\n`)
      const result = await run(['context', 'list'])
      expect(result.code).toBe(1)
      expect(result.err).toContain('(invalid_config)')
      expect(result.err).not.toContain(testKey)
    },
  )
})

describe('context commands', () => {
  const set = (...argv: string[]) => run(['context', 'set', ...argv], { stdin: `${testKey}\n` })

  it('set, list, use and show, without ever printing a key', async () => {
    expect((await set('a', '--url', rig.server.url, '--key-file', '-')).code).toBe(0)
    expect((await set('b', '--url', 'https://b.example')).code).toBe(0)
    const list = await run(['context', 'list'])
    expect(list.out).toMatch(/\* +a +http:\/\/127/)
    expect((await run(['context', 'use', 'b'])).err).toContain('Using the context b (https://b.example)')
    expect((await run(['context', 'show', '-o', 'json'])).out).toContain('"urlFrom": "context"')
    const shown = await run(['context', 'show', 'a', '-o', 'json'])
    expect(JSON.parse(shown.out)).toEqual({
      name: 'a',
      url: rig.server.url,
      apiKey: 'blf_test…',
      current: false,
    })
    for (const each of [list, shown]) expect(each.out + each.err).not.toContain(testKey)
  })

  it('store nothing with --dry-run', async () => {
    await set('a', '--url', 'https://a.example')
    const before = readFileSync(file, 'utf8')
    expect((await set('b', '--url', 'https://b.example', '--dry-run')).err).toContain('Dry run')
    await set('b', '--url', 'https://b.example', '--use')
    await run(['context', 'use', 'a', '--dry-run'])
    expect(readFileSync(file, 'utf8')).not.toBe(before)
    expect((await readContexts(file)).current).toBe('b')
  })

  it('do not take a key along to another server', async () => {
    await set('a', '--url', 'https://a.example', '--key-file', '-')
    const moved = await set('a', '--url', 'https://evil.example')
    expect(moved).toMatchObject({ code: 2 })
    expect(moved.err).toContain('give the key for the new address')
    expect((await set('a', '--url', 'https://a.example/path')).code).toBe(0)
  })

  it.each([
    [['__proto__', '--url', 'https://a'], /cannot name a context/],
    [['a'], /say where the server is/],
    [['a', '--url', 'ftp://a'], /not the address of a server/],
    [['a', '--url', 'https://user:pw@a'], /without credentials/],
    [['a', '--url', 'https://a', '--key-file', '/no/such'], /cannot be read/],
  ])('refuse set %j', async (argv, words) => {
    const result = await set(...argv)
    expect(result.err).toMatch(words)
    expect(result.code).toBe(2)
  })

  it('suggest the nearest name', async () => {
    await set('production', '--url', 'https://a.example')
    expect((await run(['context', 'use', 'producton'])).err).toContain('did you mean production?')
    expect((await run(['job', 'list', '--context', 'producton'])).code).toBe(2)
    expect((await run(['context', 'use', 'constructor'])).code).toBe(2)
  })

  it('say what to do when there is none', async () => {
    expect((await run(['context', 'list'])).err).toContain('belfry dev')
  })
})

describe('which server and key', () => {
  const askedWith = () => rig.server.seen.at(-1)?.headers['authorization']
  const keyFile = () => {
    const path = join(home, 'key')
    writeFileSync(path, `${testKey}\n`)
    return path
  }

  it('flag before environment before context', async () => {
    await saveContext(file, { name: 'dev', url: rig.server.url, apiKey: 'key-of-the-context' })
    await run(['job', 'list'])
    expect(askedWith()).toBe('Bearer key-of-the-context')
    await run(['job', 'list'], { env: { BELFRY_API_KEY: 'key-of-the-environment' } })
    expect(askedWith()).toBe('Bearer key-of-the-environment')
    const flagged = await run(['job', 'list', '--key-file', keyFile()], { env: { BELFRY_API_KEY: 'x' } })
    expect(askedWith()).toBe(`Bearer ${testKey}`)
    expect(flagged.code).toBe(0)
    const elsewhere = { BELFRY_URL: 'http://127.0.0.1:1' }
    await run(['job', 'list', '--url', rig.server.url, '--key-file', keyFile()], { env: elsewhere })
    expect(rig.server.seen).toHaveLength(4)
  })

  it('picks a context by flag and environment', async () => {
    await saveContext(file, { name: 'a', url: 'http://127.0.0.1:1', apiKey: 'a' })
    await saveContext(file, { name: 'b', url: rig.server.url, apiKey: testKey })
    expect((await run(['job', 'list', '--context', 'b'])).code).toBe(0)
    expect((await run(['job', 'list'], { env: { BELFRY_CONTEXT: 'b' } })).code).toBe(0)
  })

  it("never sends a context's key to another server", async () => {
    await saveContext(file, { name: 'dev', url: 'https://belfry.example', apiKey: testKey })
    for (const options of [{ env: { BELFRY_URL: rig.server.url } }, {}]) {
      const argv = 'env' in options ? ['job', 'list'] : ['job', 'list', '--url', rig.server.url]
      const result = await run(argv, options)
      expect(result.code).toBe(4)
      expect(askedWith()).toBeUndefined()
    }
  })

  it.each(['nonsense', 'ftp://a', 'https://u:p@a', 'https://a?x=1'])('refuses BELFRY_URL=%s', async (url) => {
    const result = await run(['job', 'list'], { env: { BELFRY_URL: url, BELFRY_API_KEY: testKey } })
    expect(result).toMatchObject({ code: 2 })
    expect(result.err).toContain('BELFRY_URL is not the address of a server')
  })
})
