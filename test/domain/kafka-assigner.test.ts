// Who reads which partition: each one goes to exactly one member that wants its topic, and none has two more
// than another that wants the same.
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { assignPartitions } from '../../packages/server/src/adapters/kafka/kafka-assigner.ts'

const topics = ['a', 'b', 'c', 'd'] as const
const membersOf = fc.dictionary(fc.stringMatching(/^m[0-9]{1,3}$/), fc.subarray([...topics]), { minKeys: 1 })
const countsOf = fc.record(Object.fromEntries(topics.map((topic) => [topic, fc.nat({ max: 12 })])))

it('gives each partition to one member that wants it', () => {
  fc.assert(
    fc.property(membersOf, countsOf, (wanted, counts) => {
      const members = new Map(Object.entries(wanted).map(([id, its]) => [id, { topics: its }]))
      const metadata = {
        topics: new Map(
          Object.entries(counts).map(([topic, partitionsCount]) => [topic, { partitionsCount }]),
        ),
      }
      const shares = assignPartitions('', members, undefined, metadata)
      expect(shares.map(({ memberId }) => memberId).toSorted()).toEqual([...members.keys()].toSorted())
      for (const topic of topics) {
        const given = shares.flatMap((share) => share.assignments.get(topic)?.partitions ?? [])
        const isWanted = [...members.values()].some((member) => member.topics.includes(topic))
        const all = Array.from({ length: isWanted ? (counts[topic] ?? 0) : 0 }, (_, partition) => partition)
        expect(given.toSorted((a, b) => a - b)).toEqual(all)
      }
      for (const share of shares) {
        for (const topic of share.assignments.keys()) expect(wanted[share.memberId]).toContain(topic)
      }
    }),
  )
})

it('spreads evenly where all want the same', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 9 }), countsOf, (size, counts) => {
      const members = new Map(Array.from({ length: size }, (_, each) => [`m${each}`, { topics }]))
      const metadata = {
        topics: new Map(
          Object.entries(counts).map(([topic, partitionsCount]) => [topic, { partitionsCount }]),
        ),
      }
      const loads = assignPartitions('', members, undefined, metadata).map((share) =>
        [...share.assignments.values()].reduce((sum, { partitions }) => sum + partitions.length, 0),
      )
      expect(Math.max(...loads) - Math.min(...loads)).toBeLessThanOrEqual(1)
    }),
  )
})
