// Notes of refusals: of a kind once a minute, of a tenant no more than a bound, the rest counted; kept while
// the database takes none, and one that it never takes holds up no other. And which ends of attempts are
// noted.
import { BelfryError } from '@belfry/contract'
import { describe, expect, it } from 'vitest'
import { createAuditNotes } from '../../packages/server/src/engine/audit-notes.ts'
import { notingDenials } from '../../packages/server/src/engine/noted-denials.ts'
import type { AuditNote } from '../../packages/server/src/ports/audit.ts'
import type { PutEntry } from '../../packages/server/src/ports/audit-log.ts'
import type { HandlerRequest, HandlerResult } from '../../packages/server/src/ports/handler.ts'
import { realClock, realRandom } from '../support/real-clock.ts'
import { recordEvents } from '../support/running.ts'

const note = (tenantId: string, id: string): AuditNote => ({
  tenantId,
  action: 'job.delete',
  subject: { kind: 'job', id, name: null },
  outcome: 'refused',
  code: 'forbidden',
})

function openNotes() {
  const put: PutEntry[] = []
  let nowMs = 0
  let isAway = false
  const events = recordEvents()
  const notes = createAuditNotes({
    inbox: {
      async put(entries) {
        if (isAway) throw new BelfryError('database_unavailable', 'away')
        if (entries.some(({ subject }) => subject.id === 'bad')) throw new RangeError('Invalid time value')
        put.push(...entries)
      },
    },
    clock: { ...realClock, monotonicMs: () => nowMs },
    random: realRandom,
    events,
  })
  const pass = (ms: number) => void (nowMs += ms)
  const away = (is: boolean) => void (isAway = is)
  return { notes, put, pass, away, events }
}

describe('notes', () => {
  it('of a kind are taken once a minute, and what was left out is counted in the next', async () => {
    const { notes, put, pass } = openNotes()
    for (let index = 0; index < 5; index++) notes.note(note('a', 'x'))
    notes.note(note('b', 'x'))
    await notes.flush()
    expect(put.map(({ tenantId, details }) => [tenantId, details])).toEqual([
      ['a', {}],
      ['b', {}],
    ])
    pass(61_000)
    notes.note(note('a', 'x'))
    notes.note(note('b', 'x'))
    await notes.flush()
    expect(put.slice(2).map(({ details }) => details)).toEqual([{ leftOut: 4 }, {}])
  })

  it('of a tenant are bounded, and no other one pays for it', async () => {
    const { notes, put } = openNotes()
    for (let index = 0; index < 500; index++) notes.note(note('a', String(index)))
    notes.note(note('b', 'x'))
    await notes.flush()
    expect(put.filter(({ tenantId }) => tenantId === 'a')).toHaveLength(60)
    expect(put.filter(({ tenantId }) => tenantId === 'b')).toHaveLength(1)
  })

  it('wait while the database takes none', async () => {
    const { notes, put, away } = openNotes()
    away(true)
    notes.note(note('a', '1'))
    await expect(notes.flush()).rejects.toThrow('away')
    notes.note(note('a', '2'))
    away(false)
    await notes.flush()
    await notes.flush()
    expect(put.map(({ subject }) => subject.id)).toEqual(['1', '2'])
  })

  it('that the database will never take are dropped and told, and the others leave once', async () => {
    const { notes, put, pass, events } = openNotes()
    for (const id of ['1', '2', 'bad', '3', '4']) notes.note(note('a', id))
    await notes.flush()
    await notes.flush()
    expect(put.map(({ subject }) => subject.id)).toEqual(['1', '2', '3', '4'])
    const told = events.of('role_failed').map(({ role, error }) => [role, String(error)])
    expect(told).toEqual([['audit_notes', expect.stringContaining('Invalid time value')]])
    pass(61_000)
    notes.note(note('a', '5'))
    await notes.flush()
    expect(put.at(-1)?.details).toEqual({ leftOut: 1 })
  })
})

describe('ends of attempts', () => {
  const failed = (code: string): HandlerResult => ({
    outcome: 'failed',
    error: { code, message: 'the target is a private address' },
    retryable: false,
  })
  const request = {
    tenantId: 't',
    jobId: 'j',
    runId: 'r',
    handler: { kind: 'http', url: 'http://10.0.0.1:81/path?token=secret' },
  } as unknown as HandlerRequest

  it.each([
    ['target_denied', 'target.call'],
    ['secret_denied', 'secret.use'],
    ['http_500', undefined],
  ])('%s is noted as %s', async (code, action) => {
    const noted: AuditNote[] = []
    const handler = { kind: 'http' as const, execute: async () => failed(code), close: async () => {} }
    const result = await notingDenials(handler, { note: (each) => void noted.push(each) }).execute(request)
    expect(result).toEqual(failed(code))
    expect(noted.map((each) => each.action)).toEqual(action === undefined ? [] : [action])
    expect(JSON.stringify(noted)).not.toContain('secret=')
    expect(noted.map((each) => each.details)).toEqual(
      noted.map(() => ({ runId: 'r', target: '10.0.0.1:81' })),
    )
  })
})
