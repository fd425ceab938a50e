/**
 * An order and the work that follows from it, in one transaction: the confirmation is sent if and only if the
 * order is there. Without this, a crash between the two would lose the one or send the other for nothing.
 */
import { type Belfry, defineJob } from 'belfry'
import type pg from 'pg'
import { z } from 'zod'

export const shopSchema = `
  CREATE SCHEMA IF NOT EXISTS shop;
  CREATE TABLE IF NOT EXISTS shop.orders (id int PRIMARY KEY, total numeric NOT NULL CHECK (total > 0));
  CREATE TABLE IF NOT EXISTS shop.confirmations (order_id int PRIMARY KEY);`

export const confirmOrder = (database: pg.Pool) =>
  defineJob({
    name: 'order.confirm',
    input: z.object({ orderId: z.int() }),
    async run({ orderId }) {
      // once per order, however often the run is tried
      await database.query('INSERT INTO shop.confirmations VALUES ($1) ON CONFLICT DO NOTHING', [orderId])
    },
  })

type ConfirmOrder = ReturnType<typeof confirmOrder>

/** Throws, and leaves nothing behind, where the order is refused. */
export async function placeOrder(
  parts: { database: pg.Pool; belfry: Belfry; confirm: ConfirmOrder },
  order: { id: number; total: number },
): Promise<void> {
  const client = await parts.database.connect()
  try {
    await client.query('BEGIN')
    await parts.belfry.enqueue(parts.confirm, { orderId: order.id }, { client })
    await client.query('INSERT INTO shop.orders VALUES ($1, $2)', [order.id, order.total])
    await client.query('COMMIT')
  } catch (error) {
    await client.query('ROLLBACK')
    throw error
  } finally {
    client.release()
  }
}
