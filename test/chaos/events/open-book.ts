import type { Book } from './book.js'
import type { BookPlace } from './child.js'
import { postgresBook } from './postgres-book.js'
import { sqliteBook } from './sqlite-book.js'

export function openBook(place: BookPlace): Book {
  return place.engine === 'sqlite' ? sqliteBook(place) : postgresBook(place)
}
