/**
 * Judges a chain of the audit log without a server: by the entries, by what was signed, and by copies that
 * were kept elsewhere. Records may come in any order and more than once.
 *
 *   altered     an entry is not what its hash says
 *   broken      an entry does not follow the one before it: something was swapped, put in or changed
 *   missing     numbers are left out: at the beginning (and no cut attests it), in the middle, or at the end
 *               (a checkpoint attests that there were more)
 *   doubled     two different entries have one number
 *   rewritten   the chain fits itself, but not what was signed or kept of it
 *   signature   a checkpoint or a cut is not signed by a key that is trusted, or is missing
 *
 * What was added after the last checkpoint is bound by the chain alone; the verdict says how much that is.
 */
import type { KeyObject } from 'node:crypto'
import type { AuditCheckpoint, AuditCut, AuditLink, AuditRecord } from './audit.ts'
import { type AuditDoubt, doubtsOf, type SealedAt, sealedAtOf } from './audit-doubts.ts'
import { hashOfLink, isSignedBy, keyIdOf, noHash, rawPublicKey } from './audit-chain.ts'

export type AuditFaultKind = 'altered' | 'broken' | 'missing' | 'doubled' | 'rewritten' | 'signature'

export interface AuditFault {
  readonly tenantId: string
  readonly kind: AuditFaultKind
  /** The first entry that it is about. */
  readonly seq: number
  readonly message: string
}

export interface AuditVerdict {
  readonly ok: boolean
  readonly tenants: readonly {
    readonly tenantId: string
    /** Numbers of the first and the last entry; 0: there is none. */
    readonly first: number
    readonly last: number
    readonly head: string
    readonly checkpoints: number
    /** Up to here a trusted signature attests the chain. */
    readonly signedSize: number
  }[]
  readonly faults: readonly AuditFault[]
  /** What fits, and is to be doubted all the same. */
  readonly doubts: readonly AuditDoubt[]
}

/** What a server says of a chain, asked before its records were read. */
export interface AuditClaim {
  readonly tenantId: string
  readonly size: number
  readonly head: string | null
  readonly signedSize: number
  /** When the tenant was made. */
  readonly tenantMs: number
}

export interface AuditVerifier {
  /** It must have as much as it says itself. */
  claim(claim: AuditClaim): void
  /** Of the chain that is judged. */
  add(record: AuditRecord): void
  /** Of a copy that was kept elsewhere, by which it is judged. */
  witness(record: AuditRecord): void
  finish(): AuditVerdict
}

interface Seen {
  readonly hash: string
  readonly previousHash: string
  readonly whole: boolean
  readonly times: SealedAt
}

interface Chain {
  readonly links: Map<number, Seen>
  readonly doubled: Set<number>
  readonly kept: Map<number, string>
  readonly checkpoints: Map<string, AuditCheckpoint>
  readonly cuts: Map<string, AuditCut>
  claim: AuditClaim | undefined
}

type Report = (kind: AuditFaultKind, seq: number, message: string) => void

/** A chain gets its first signature in the round that makes it. */
const firstSignatureMs = 60_000

/** Without keys, signatures are not asked for. `nowMs` is when the records were read. */
export function createAuditVerifier(publicKeys: readonly KeyObject[], nowMs: number): AuditVerifier {
  const chains = new Map<string, Chain>()
  const keys = new Map(publicKeys.map((key) => [keyIdOf(rawPublicKey(key)), key]))

  function chainOf(tenantId: string): Chain {
    const known = chains.get(tenantId)
    if (known !== undefined) return known
    const made: Chain = {
      links: new Map(),
      doubled: new Set(),
      kept: new Map(),
      checkpoints: new Map(),
      cuts: new Map(),
      claim: undefined,
    }
    chains.set(tenantId, made)
    return made
  }
  function attest(record: AuditCheckpoint | AuditCut): void {
    const chain = chainOf(record.tenantId)
    if (record.type === 'checkpoint') chain.checkpoints.set(record.signature, record)
    else chain.cuts.set(record.signature, record)
  }

  return {
    claim(claim) {
      chainOf(claim.tenantId).claim = claim
    },
    add(record) {
      if (record.type !== 'entry') return attest(record)
      addLink(chainOf(record.tenantId), record)
    },
    witness(record) {
      if (record.type !== 'entry') return attest(record)
      chainOf(record.tenantId).kept.set(record.seq, record.hash)
    },
    finish() {
      const faults: AuditFault[] = []
      const tenants = [...chains].map(([tenantId, chain]) => {
        const report: Report = (kind, seq, message) => void faults.push({ tenantId, kind, seq, message })
        return { tenantId, ...judge(chain, { keys, nowMs }, report) }
      })
      const doubts = tenants.flatMap(({ tenantId, signedSize }) => {
        const { links, claim } = chainOf(tenantId)
        const times = [...links].map(([seq, each]) => [seq, each.times] as const).sort(([a], [b]) => a - b)
        const found = doubtsOf({ times, signedSize, nowMs, tenantMs: claim?.tenantMs, signs: keys.size > 0 })
        return found.map((each) => ({ tenantId, ...each }))
      })
      return { ok: faults.length === 0, tenants, faults, doubts }
    },
  }
}

function addLink({ links, doubled }: Chain, link: AuditLink): void {
  const { seq, hash, previousHash } = link
  const whole = hashOfLink(link) === hash
  const before = links.get(seq)
  if (before === undefined) links.set(seq, { hash, previousHash, whole, times: sealedAtOf(link) })
  else if (before.hash !== hash || before.whole !== whole) doubled.add(seq)
}

interface JudgedBy {
  readonly keys: ReadonlyMap<string, KeyObject>
  readonly nowMs: number
}

function judge(chain: Chain, by: JudgedBy, report: Report) {
  const { links, doubled, kept } = chain
  const seqs = [...links.keys()].sort((a, b) => a - b)
  const first = seqs[0] ?? 0
  const last = seqs.at(-1) ?? 0
  for (const seq of doubled) report('doubled', seq, `two different entries have the number ${seq}`)
  const trusted = (record: AuditCheckpoint | AuditCut, seq: number) =>
    isTrusted(record, by.keys, (message) => report('signature', seq, message))
  const cuts = [...chain.cuts.values()].filter((cut) => trusted(cut, cut.firstSeq))
  const checkpoints = [...chain.checkpoints.values()]
    .filter((each) => trusted(each, each.size))
    .sort((a, b) => a.size - b.size)
  judgeStart(links, first, cuts, report)
  judgeLinks(links, seqs, report)
  for (const [seq, hash] of kept) {
    const link = links.get(seq)
    if (link !== undefined && link.hash !== hash)
      report('rewritten', seq, `entry ${seq} is another one than in the copy that was kept`)
  }
  // all of it may have been taken away, and said so
  const cutOff = Math.max(0, ...cuts.map(({ firstSeq }) => firstSeq - 1))
  const gone = links.size > 0 ? 0 : cutOff
  const left = checkpoints.filter(({ size }) => size > gone)
  const signedSize = judgeCheckpoints(links, { first, last, checkpoints: left }, report)
  const keptLast = Math.max(0, ...kept.keys())
  if (keptLast > last && !checkpoints.some(({ size }) => size >= keptLast))
    report(
      'missing',
      last + 1,
      `${span(last + 1, keptLast)} missing at the end: a copy that was kept has them`,
    )
  const attested = Math.max(0, ...checkpoints.map(({ size }) => size))
  judgeClaim(chain, { last: Math.max(last, cutOff), attested: Math.max(attested, cutOff), by }, report)
  const head = links.get(last)?.hash ?? noHash
  return { first, last, head, checkpoints: checkpoints.length, signedSize }
}

/** What the server says of itself does not make a chain good, and shows where it has less. */
function judgeClaim(
  { links, claim, checkpoints }: Chain,
  { last, attested, by }: { last: number; attested: number; by: JudgedBy },
  report: Report,
): void {
  const [first] = [...links].sort(([a], [b]) => a - b)
  if (by.keys.size > 0 && checkpoints.size === 0 && first !== undefined) {
    const [seq, { times }] = first
    if (by.nowMs - times.sealedMs > firstSignatureMs)
      report('signature', seq, 'no checkpoint attests any entry: they were taken away, or nobody signs here')
  }
  if (claim === undefined) return
  const { size, head, signedSize } = claim
  const hash = links.get(size)?.hash
  if (size > Math.max(last, attested))
    report(
      'missing',
      last + 1,
      `${span(last + 1, size)} missing at the end: the server itself says that there are ${size}`,
    )
  else if (head !== null && hash !== undefined && hash !== head)
    report('rewritten', size, `entry ${size} is another one than the server itself says`)
  if (by.keys.size > 0 && signedSize > attested)
    report(
      'signature',
      signedSize,
      `the checkpoint at ${signedSize}, which the server itself names, is missing`,
    )
}

function isTrusted(
  record: AuditCheckpoint | AuditCut,
  keys: ReadonlyMap<string, KeyObject>,
  fault: (message: string) => void,
): boolean {
  const place =
    record.type === 'checkpoint' ? `the checkpoint at ${record.size}` : `the cut before ${record.firstSeq}`
  const key = keys.get(record.keyId)
  if (key === undefined)
    fault(`${place} is signed by the key ${record.keyId}, which is not among the trusted ones`)
  else if (!isSignedBy(record, key)) fault(`${place} does not fit its signature: it was changed or made up`)
  else return true
  return false
}

/** A chain begins with 1, or where a cut says so. */
function judgeStart(
  links: ReadonlyMap<number, Seen>,
  first: number,
  cuts: readonly AuditCut[],
  report: Report,
): void {
  const begins = links.get(first)
  if (begins === undefined) return
  if (first === 1) {
    if (begins.previousHash !== noHash) report('broken', 1, 'entry 1 names an entry before it')
    return
  }
  const cut = cuts.find(({ firstSeq }) => firstSeq === first)
  if (cut?.previousHash === begins.previousHash) return
  if (cut !== undefined)
    return report('broken', first, `entry ${first} does not follow what the cut before it attests`)
  const from = Math.max(1, ...cuts.map(({ firstSeq }) => firstSeq).filter((seq) => seq < first))
  report(
    'missing',
    from,
    `${span(from, first - 1)} missing at the beginning, and no cut attests that they may be`,
  )
}

function judgeLinks(links: ReadonlyMap<number, Seen>, seqs: readonly number[], report: Report): void {
  let previous: number | undefined
  for (const seq of seqs) {
    const link = links.get(seq)
    if (link === undefined) continue
    if (!link.whole) report('altered', seq, `entry ${seq} was changed: it is not what its hash says`)
    if (previous !== undefined) {
      if (seq !== previous + 1)
        report(
          'missing',
          previous + 1,
          `${span(previous + 1, seq - 1)} missing between ${previous} and ${seq}`,
        )
      else if (links.get(previous)?.hash !== link.previousHash)
        report(
          'broken',
          seq,
          `entry ${seq} does not follow entry ${previous}: one of them was changed, put in or swapped`,
        )
    }
    previous = seq
  }
}

/** Answers up to where the chain is attested. */
function judgeCheckpoints(
  links: ReadonlyMap<number, Seen>,
  { first, last, checkpoints }: { first: number; last: number; checkpoints: readonly AuditCheckpoint[] },
  report: Report,
): number {
  let good = 0
  let tailMissing = 0
  for (const { size, head } of checkpoints) {
    if (size > last) {
      tailMissing = Math.max(tailMissing, size)
      continue
    }
    if (size < first) continue
    const hash = links.get(size)?.hash
    if (hash === undefined) continue
    if (hash === head) good = size
    else {
      const from = Math.max(good + 1, first)
      report(
        'rewritten',
        from,
        `the chain was made anew somewhere from entry ${from} to ${size}: it fits itself, but not the ` +
          `checkpoint that was signed at ${size}`,
      )
    }
  }
  if (tailMissing > 0)
    report(
      'missing',
      last + 1,
      `${span(last + 1, tailMissing)} missing at the end: the checkpoint at ${tailMissing} attests them`,
    )
  return good
}

const span = (from: number, to: number): string =>
  from === to ? `entry ${from} is` : `entries ${from} to ${to} are`
