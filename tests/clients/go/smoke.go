package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/google/uuid"
	"smoke/rlockd"
)

var (
	ctx    = context.Background()
	client *rlockd.ClientWithResponses
)

// expect ends the program unless the answer has the status and, of a success, its fields.
func expect[Answer interface{ StatusCode() int }](status int) func(Answer, error) Answer {
	return func(answer Answer, err error) Answer {
		if err != nil {
			log.Panic(err)
		}
		if answer.StatusCode() != status {
			log.Panicf("status %d instead of %d", answer.StatusCode(), status)
		}
		return answer
	}
}

func check(holds bool, what string) {
	if !holds {
		log.Panic("not so: ", what)
	}
}

func ok(step string) {
	fmt.Println("ok", step)
}

func token() string {
	return uuid.NewString()
}

func pointer[T any](value T) *T {
	return &value
}

func main() {
	log.SetFlags(log.Lshortfile)
	var err error
	if client, err = rlockd.NewClientWithResponses(os.Getenv("RLOCKD_URL")); err != nil {
		log.Panic(err)
	}
	session := openSession()
	locks(session)
	severalLocks()
	semaphore()
	permit(session)
	latch()
	session.end()
}
