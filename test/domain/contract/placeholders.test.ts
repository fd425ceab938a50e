// The closed list of placeholders: what is one, what is refused, how it is filled, and which secrets a
// handler names.
import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { placeholdersOf, secretsOf, secretTargetsOf, templateFault, templateParts } from '@belfry/contract'
import { fill } from '../../../packages/server/src/domain/template.ts'

const run = { id: 'r1', attempt: 2, scheduledForMs: Date.UTC(2026, 11, 1), idempotencyKey: 'k1' }
const secrets = new Map([['api.token', 'v-{{run.id}}']])
const filled = (text: string) => fill(text, secrets, run)

describe('a template', () => {
  it('knows secrets and four words of the run', () => {
    expect(filled('{{run.id}} {{run.attempt}} {{run.scheduledFor}} {{run.idempotencyKey}}')).toEqual({
      ok: true,
      text: 'r1 2 2026-12-01T00:00:00.000Z k1',
    })
    expect(fill('[{{run.scheduledFor}}]', secrets, { ...run, scheduledForMs: null })).toEqual({
      ok: true,
      text: '[]',
    })
    expect(placeholdersOf('Bearer {{secrets.a}}{{secret:b-c}}')).toMatchObject([
      { kind: 'secret', name: 'a' },
      { kind: 'secret', name: 'b-c' },
    ])
  })

  it('is filled once: what is filled in is never read again', () => {
    expect(filled('Bearer {{secrets.api.token}}')).toEqual({ ok: true, text: 'Bearer v-{{run.id}}' })
    expect(filled('{{secrets.other}}')).toEqual({ ok: false, missing: 'other' })
  })

  it.each([
    '{{ secrets.a }}',
    '{{secrets.}}',
    '{{secrets.a.b/c}}',
    '{{run.input}}',
    '{{run.constructor}}',
    '{{env.HOME}}',
    '{{{secrets.a}}}',
    '{{secrets.a}',
    '{{',
    '{{7*7}}',
    '{{secrets.__proto__}}',
  ])('is refused with %s in it, and leaves it as it is where it is stored already', (text) => {
    expect(templateFault(text)).toMatch(/begins no placeholder.*\{\{secrets\.NAME\}\}/)
  })

  it.each(['', 'plain', '}}', '{"a":{"b":1}}', '{ {secrets.a} }', '${secrets.a}', '<%= 1 %>'])(
    'is ordinary text: %s',
    (text) => {
      expect(templateFault(text)).toBeUndefined()
      expect(filled(text)).toEqual({ ok: true, text })
    },
  )

  it('holds against the hostile cases: refused, or literal text', () => {
    const cases = JSON.parse(readFileSync(new URL('../../cases/security.json', import.meta.url), 'utf8')) as {
      cases: { area: string; input: Record<string, unknown> }[]
    }
    const templates = cases.cases.filter(({ area }) => area === 'template')
    expect(templates.length).toBeGreaterThan(0)
    for (const { input } of templates) {
      const text = String(input['payload_template'])
      const literal = filled(text)
      expect(templateFault(text) !== undefined || (literal.ok && literal.text === text)).toBe(true)
    }
  })

  it('reads a long one in one pass', () => {
    const text = '{{'.repeat(200_000)
    expect(templateParts(text).length).toBe(200_000)
  })
})

describe('what a handler names', () => {
  const http = {
    kind: 'http',
    url: 'https://api.example.com/hook?x=1',
    headers: { Authorization: 'Bearer {{secrets.token}}', 'X-Run': '{{run.id}}' },
    body: '{{secrets.never}}',
    signing: { keys: [{ secret: 'sign-1' }, { secret: 'sign-2' }] },
    oauth2: { tokenUrl: 'https://login.example.com/token', clientSecret: { secret: 'client' } },
  }

  it('is found in headers, environment and fields made for it, and nowhere else', () => {
    expect(secretsOf(http)).toEqual(['client', 'sign-1', 'sign-2', 'token'])
    const env = { A: '{{secrets.a}}', B: { secret: 'b' }, secret: 'plain', C: 'plain' }
    expect(secretsOf({ kind: 'container', image: 'x', env, stdin: '{{secrets.no}}' } as never)).toEqual([
      'a',
      'b',
    ])
    expect(secretsOf({ kind: 'function', name: 'f', secrets: ['y', 'x'] } as never)).toEqual(['x', 'y'])
    expect(secretsOf({ kind: 'function', name: 'f' } as never)).toEqual([])
  })

  it('goes to every host in it, or to what decides who sees it', () => {
    expect(secretTargetsOf(http)).toEqual(['https://api.example.com', 'https://login.example.com'])
    const container = {
      kind: 'container',
      image: 'job:1',
      command: ['sh', '-c', 'x'],
      env: { A_URL: 'http://no' },
    }
    const program = 'image job:1, command ["sh","-c","x"], env {"A_URL":"http://no"}'
    expect(secretTargetsOf(container)).toEqual([program])
    const without: { kind: string; image: string } = { kind: 'container', image: container.image }
    expect(secretTargetsOf(without)).toEqual(['image job:1'])
    const orders = [
      { B: '1', A: '2' },
      { A: '2', B: '1' },
    ].map((env) => ({ ...container, env }))
    expect(new Set(orders.flatMap(secretTargetsOf)).size).toBe(1)
    expect(secretTargetsOf({ kind: 'function', name: 'report' } as never)).toEqual(['name report'])
  })
})
