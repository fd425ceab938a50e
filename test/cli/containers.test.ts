// The commands around containers: jobs that are one, by flags and as JSON, and what a tenant's may be.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeEach, describe, expect, it } from 'vitest'
import { startCliRig } from './support/cli.ts'

const rig = await startCliRig()
const folder = mkdtempSync(join(tmpdir(), 'belfry-containers-'))
afterAll(async () => {
  rmSync(folder, { recursive: true, force: true })
  await rig.close()
})
beforeEach(() => {
  rig.server.store.jobs.clear()
  rig.server.seen.length = 0
})
const sent = () => rig.server.seen.at(-1)?.body
const image = 'registry.example.com/team/app:1'

describe('a job in a container', () => {
  it('is made of flags, and shown', async () => {
    const argv = ['job', 'create', 'nightly', '--container', image, '--arg', '--all', '--arg', 'x y']
    const env = ['--env', 'A=b=c', '--env', 'PW=@secret:db', '--env', 'E=', '--egress', 'internet']
    const { out, code } = await rig.run([...argv, ...env])
    expect(code).toBe(0)
    expect(out).toContain(`container ${image}`)
    expect(sent()).toMatchObject({
      handler: {
        kind: 'container',
        image,
        command: ['--all', 'x y'],
        env: { A: 'b=c', PW: { secret: 'db' }, E: '' },
        egress: 'internet',
      },
    })
  })

  it('is made of a file, with what has no flag', async () => {
    const handler = { kind: 'container', image, limits: { memoryMb: 512 }, result: 'file' }
    const file = join(folder, 'handler.json')
    writeFileSync(file, JSON.stringify(handler))
    await rig.run(['job', 'create', 'nightly', '--handler', `@${file}`])
    expect(sent()).toMatchObject({ handler: { image, result: 'file' } })
    await rig.run(['schedule', 'create', 'nightly', '--every', '1h', '--container', image])
    expect(sent()).toMatchObject({ handler: { kind: 'container', image } })
  })

  it('keeps what an update does not name', async () => {
    await rig.run(['job', 'create', 'nightly', '--container', image, '--env', 'A=1', '--arg', 'x'])
    await rig.run(['job', 'update', 'nightly', '--env', 'B=2'])
    expect(sent()).toMatchObject({ handler: { image, command: ['x'], env: { B: '2' } } })
    await rig.run(['job', 'update', 'nightly', '--container', 'registry.example.com/team/app:2'])
    expect(sent()).toMatchObject({ handler: { image: 'registry.example.com/team/app:2', env: { B: '2' } } })
    await rig.run(['job', 'update', 'nightly', '--http', 'https://a.example'])
    expect(sent()).toMatchObject({ handler: { kind: 'http', url: 'https://a.example' } })
  })

  it.each([
    [['--env', 'A=1', '--http', 'https://a.example'], '--env needs --container'],
    [['--header', 'A: 1', '--container', image], '--header needs --http'],
    [['--container', image, '--env', 'A'], 'NAME=text'],
    [['--container', image, '--env', 'A=1', '--env', 'A=2'], 'given twice'],
    [['--container', image, '--function', 'x'], 'give only one of --function, --container'],
    [['--container', image, '--handler', '{}'], 'give only one of --container, --handler'],
    [['--lambda', 'arn:aws:lambda:eu-central-1:123456789012:function:f'], '--lambda needs --role'],
  ])('%j is refused before anything is asked', async (flags, words) => {
    const { code, err } = await rig.run(['job', 'create', 'x', ...flags])
    expect(code).toBe(2)
    expect(err).toContain(words)
    expect(rig.server.seen).toEqual([])
  })
})

describe('what containers may be', () => {
  it('is shown, of the own tenant and of another', async () => {
    const own = await rig.run(['container', 'policy'])
    expect(own.out).toMatch(/Images +registry\.example\.com\/team\/\*/)
    expect((await rig.run(['container', 'policy', '--tenant', 'billing'])).out).toMatch(/Tenant +billing/)
  })

  it('is set field by field, left to the configuration, or closed', async () => {
    const allow = (...flags: string[]) => rig.run(['container', 'allow', 'billing', ...flags])
    await allow('--image', 'a.example.com/*', '--image', 'b.example.com/x', '--digests', 'required')
    expect(sent()).toEqual({ images: ['a.example.com/*', 'b.example.com/x'], digestsRequired: true })
    await allow('--image', 'default', '--digests', 'default', '--max-memory', 'default', '--egress', 'none')
    expect(sent()).toEqual({ images: null, digestsRequired: null, maxMemoryMb: null, egress: [] })
    await allow('--max-memory', '512', '--max-cpu', '1000', '--max-pids', '32', '--image', 'none')
    expect(sent()).toEqual({ maxMemoryMb: 512, maxCpuMillis: 1000, maxPids: 32, images: [] })
    const before = rig.server.seen.length
    expect((await allow()).err).toContain('nothing to set')
    expect((await allow('--max-pids', 'many')).err).toContain('whole number')
    expect(rig.server.seen.length).toBe(before)
  })
})
