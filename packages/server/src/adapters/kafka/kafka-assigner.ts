/**
 * Who reads which partition of which topic, among members of a group that do not all want the same topics:
 * each goes to the one that wants it and has least. Who is first in the group computes it for all.
 */
export interface GroupMember {
  readonly topics?: readonly string[] | undefined
}

interface TopicPartitions {
  readonly partitionsCount: number
}

interface Share {
  memberId: string
  assignments: Map<string, { topic: string; partitions: number[] }>
}

const emptyShare = (memberId: string): Share & { count: number } => ({
  memberId,
  count: 0,
  assignments: new Map(),
})

/** In the shape that the library takes an assigner in. */
export function assignPartitions(
  _leader: string,
  members: ReadonlyMap<string, GroupMember>,
  _topicsOfLeader: unknown,
  metadata: { readonly topics: ReadonlyMap<string, TopicPartitions> },
): Share[] {
  const ids = [...members.keys()].sort()
  const shares = new Map(ids.map((memberId) => [memberId, emptyShare(memberId)]))
  for (const topic of [...metadata.topics.keys()].sort()) {
    const wanting = ids.flatMap((id) => {
      const share = shares.get(id)
      return share !== undefined && members.get(id)?.topics?.includes(topic) === true ? [share] : []
    })
    if (wanting.length === 0) continue
    const count = metadata.topics.get(topic)?.partitionsCount ?? 0
    for (let partition = 0; partition < count; partition++) {
      const least = wanting.reduce((best, each) => (each.count < best.count ? each : best))
      least.count++
      const its = least.assignments.get(topic)
      if (its === undefined) least.assignments.set(topic, { topic, partitions: [partition] })
      else its.partitions.push(partition)
    }
  }
  return [...shares.values()].map(({ memberId, assignments }) => ({ memberId, assignments }))
}
