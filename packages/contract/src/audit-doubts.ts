/**
 * What of a chain that fits itself is still to be doubted. Whoever owns the database can take a chain away
 * and have the sealer make another one of doctored entries, which is signed like any; but it is sealed when
 * he does that, long after what its entries tell of. Doubts are no faults: a scheduler that stood still, or
 * a log that came with an upgrade, looks the same. A copy kept elsewhere decides.
 */
import type { AuditLink } from './audit.ts'

/**
 *   late      entries got their place in the chain long after they were written
 *   begins    the chain begins long after the tenant was made
 *   unsigned  entries are old, and no signature attests them
 */
type AuditDoubtKind = 'late' | 'begins' | 'unsigned'

export interface AuditDoubt {
  readonly tenantId: string
  readonly kind: AuditDoubtKind
  /** The first entry that it is about, and how many there are. */
  readonly seq: number
  readonly count: number
  readonly message: string
}

export interface SealedAt {
  readonly atMs: number
  readonly sealedMs: number
}

export const sealedAtOf = ({ at, sealedAt }: AuditLink): SealedAt => ({
  atMs: Date.parse(at),
  sealedMs: Date.parse(sealedAt),
})

/** Sealing takes a second, and fifteen after a quiet time. */
const lateMs = 10 * 60_000
/** Longer than any interval of signatures may be set. */
const unsignedMs = 2 * 3_600_000
const beginsMs = 24 * 3_600_000

interface DoubtedChain {
  /** By their numbers, ascending. */
  readonly times: readonly (readonly [seq: number, SealedAt])[]
  readonly signedSize: number
  readonly nowMs: number
  /** When the tenant was made; undefined: that is not known here. */
  readonly tenantMs: number | undefined
  /** Whether signatures are looked for. */
  readonly signs: boolean
}

export function doubtsOf(chain: DoubtedChain): readonly Omit<AuditDoubt, 'tenantId'>[] {
  const { times, signedSize, nowMs, tenantMs, signs } = chain
  const late = times.filter(([, { atMs, sealedMs }]) => sealedMs - atMs > lateMs)
  const unsigned = signs
    ? times.filter(([seq, { sealedMs }]) => seq > signedSize && nowMs - sealedMs > unsignedMs)
    : []
  const begins = times.slice(0, 1).filter(([seq, { sealedMs }]) => {
    return seq === 1 && tenantMs !== undefined && sealedMs - tenantMs > beginsMs
  })
  return [
    ...doubt('late', late, (count) => {
      const longest = Math.round(Math.max(...late.map(([, each]) => each.sealedMs - each.atMs)) / 60_000)
      return (
        `${count} got into the chain up to ${longest} minutes after they were written: no scheduler ran ` +
        'then, or the chain was made anew; compare with a copy (--kept)'
      )
    }),
    ...doubt('begins', begins, () => {
      return (
        'the log begins more than a day after the tenant was made: there was no audit log then, or what ' +
        'was before was taken away; compare with a copy (--kept)'
      )
    }),
    ...doubt('unsigned', unsigned, (count) => {
      return (
        `${count} got into the chain hours ago and no signature attests them: no scheduler with the key ` +
        'has run since, or signatures were taken away'
      )
    }),
  ]
}

function doubt(
  kind: AuditDoubtKind,
  about: DoubtedChain['times'],
  words: (count: string) => string,
): Omit<AuditDoubt, 'tenantId'>[] {
  const [first] = about
  if (first === undefined) return []
  const count = about.length
  const message = words(count === 1 ? `entry ${first[0]}` : `${count} entries, the first is ${first[0]},`)
  return [{ kind, seq: first[0], count, message }]
}
