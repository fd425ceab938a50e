/**
 * The audit as a topic: records in order
 * for each tenant.
 */
import type { AuditSink } from '../../ports/audit-log.ts'
import type { KafkaLink } from './kafka-link.ts'
import { auditTopic } from './kafka-topics.ts'

const headers = { 'content-type': 'application/json; charset=utf-8' }

export function createKafkaAudit(link: KafkaLink): AuditSink {
  const topic = auditTopic(link.settings.prefix)
  return {
    name: `kafka:${link.settings.prefix}`,
    get up() {
      return link.up
    },
    async write(records) {
      await link.ensureTopics([topic])
      await link.send(
        topic,
        records.map((record) => ({ key: record.tenantId, value: JSON.stringify(record), headers })),
      )
    },
  }
}
